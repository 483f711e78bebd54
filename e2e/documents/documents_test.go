package documents_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestReadme runs the shell block of the README, line by line, as a reader
// would.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := shellLines(string(text))
	if len(lines) < 8 {
		t.Fatalf("the README shows %d commands: %q", len(lines), lines)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("DIAPAUSE_DATA", filepath.Join(t.TempDir(), "data"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	addr := ""
	for _, line := range lines {
		switch {
		case line == "diapause up":
			addr = startUp(ctx, t)
		case strings.HasPrefix(line, "nats pub "):
			publish(t, addr, strings.Fields(line)[2])
		default:
			run(ctx, t, line)
		}
	}
	run(ctx, t, "diapause rm --yes work")
	run(ctx, t, "diapause rm --yes twin")
	replay(ctx, t, string(text))
	run(ctx, t, "diapause rm --yes count")
}

// replay runs the commands of a document's console block: they print what stands there, but
// for times, sizes, names of snapshots and of the host.
func replay(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	block := regexp.MustCompile("(?s)```console\n(.*?)```").FindStringSubmatch(text)
	if block == nil {
		t.Fatal("the README shows nothing of what is printed")
	}
	for _, step := range strings.Split("\n"+block[1], "\n$ ")[1:] {
		line, want, _ := strings.Cut(step, "\n")
		out, err := exec.CommandContext(ctx, "bash", "-c", line).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		if got, want := shape(string(out)), shape(want); got != want {
			t.Errorf("%s prints\n%s\nand not, as the README says,\n%s", line, got, want)
		}
	}
}

// shape is what a command prints without what differs each time.
func shape(out string) string {
	for _, r := range [][2]string{
		{`\d{4}-\d\d-\d\dT[\d:.]+Z`, "AT"}, {`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ms|s|m|h)\b`, "TIME"}, {`\b\d+(\.\d+)? [kMG]?B\b`, "SIZE"}, {`\b\d+-\d+\b`, "ID"}, {`on host [\w.-]+`, "on HOST"}, {` +`, " "},
	} {
		out = regexp.MustCompile(r[0]).ReplaceAllString(out, r[1])
	}
	return strings.TrimSpace(out)
}

// shellLines gives the commands of a document's sh blocks, without comments.
func shellLines(text string) []string {
	var out []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		for line := range strings.SplitSeq(block[1], "\n") {
			line, _, _ = strings.Cut(line, " #")
			if line = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "&")); line != "" {
				out = append(out, line)
			}
		}
	}
	return out
}

func run(ctx context.Context, t *testing.T, line string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	t.Logf("%s\n%s", line, out)
}

// startUp starts the daemon on a free port, waits until it is ready, and stops
// it when the test ends.
func startUp(ctx context.Context, t *testing.T) (addr string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, "diapause", "up", "--listen", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = exec.Command("diapause", "down", "--kill").Run() // it has ended, then
		<-ended
	})
	wait := func() {
		_ = cmd.Wait() // else `diapause down` waits for what has ended
		close(ended)
	}
	for in := bufio.NewScanner(out); in.Scan(); {
		if m := regexp.MustCompile(`^ready: .* nats://(\S+),`).FindStringSubmatch(in.Text()); m != nil {
			go wait()
			return m[1]
		}
	}
	go wait()
	t.Fatal("diapause up ended before it was ready")
	return ""
}

// publish does what `nats pub SUBJECT ”` does, without credentials.
func publish(t *testing.T, addr, subject string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "CONNECT {\"verbose\":false}\r\nPUB %s 0\r\n\r\nPING\r\n", subject); err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(conn); in.Scan(); {
		switch line := in.Text(); {
		case line == "PONG":
			return
		case strings.HasPrefix(line, "-ERR"):
			t.Fatalf("publish %s: %s", subject, line)
		}
	}
	t.Fatalf("publish %s: the server hung up", subject)
}
