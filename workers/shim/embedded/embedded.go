// Package embedded holds the shim's own program inside the one file of diapause.
//
// The file program beside this one is empty, so that every go command works on a fresh
// clone. services/cmd/build.sh builds the command in the directory ../program and puts it
// in that file's place while it builds diapause (go build -overlay): no file of the
// repository changes. A diapause that was built without it, by go install for example,
// starts itself as the shim, which takes more memory and time.
package embedded

import _ "embed"

//go:embed program
var program []byte

// Program returns the shim's own program, an executable file; nil if this program was built
// without it. The caller must not change it.
func Program() []byte {
	if len(program) == 0 {
		return nil
	}
	return program
}
