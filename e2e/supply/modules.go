package supply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// Module is one that is linked.
type Module struct {
	Path    string // as imported; "std" is Go's standard library
	Version string // as go.mod has it, or that of Go
	Dir     string // its source
}

// programs are the packages whose programs are given to users.
var programs = []string{"./services/cmd/diapause", "./workers/shim/program"}

// ours is what the paths of this repository's modules begin with.
const ours = "github.com/diapause/diapause/"

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath string
	Standard   bool
	Module     *struct {
		Path, Version, Dir string
		Replace            *struct{ Path, Version, Dir string }
	}
}

// Modules are those of others that are linked into the programs of the source tree at root,
// in the order of their paths.
func Modules(ctx context.Context, root string) ([]Module, error) {
	goroot, err := ask(ctx, root, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	version, err := ask(ctx, root, "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	packages, err := ask(ctx, root, append([]string{"list", "-deps", "-json=ImportPath,Standard,Module"}, programs...)...)
	if err != nil {
		return nil, err
	}
	found := map[string]Module{"std": {Path: "std", Version: version, Dir: goroot}}
	for d := json.NewDecoder(strings.NewReader(packages)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read what go list says: %w", err)
		}
		switch {
		case p.Standard:
		case p.Module == nil:
			return nil, fmt.Errorf("package %s is in no module", p.ImportPath)
		case p.Module.Replace != nil && !strings.HasPrefix(p.Module.Path, ours):
			return nil, fmt.Errorf("module %s is replaced by %s: require it directly", p.Module.Path, p.Module.Replace.Path)
		case !strings.HasPrefix(p.Module.Path, ours):
			found[p.Module.Path] = Module{Path: p.Module.Path, Version: p.Module.Version, Dir: p.Module.Dir}
		}
	}
	modules := make([]Module, 0, len(found))
	for _, m := range found {
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.Path, b.Path) })
	return modules, nil
}

// ask runs the go command in dir as the program is built, without cgo.
func ask(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}
