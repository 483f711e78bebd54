package programs

import (
	"context"
	"fmt"

	"github.com/diapause/diapause/e2e/compat/local"
)

// Bash is an interactive shell with variables, a function, a directory, and one
// job in the background and one stopped.
func Bash() Program {
	return Program{
		Name: "bash", State: "variables, array, function, cwd, terminal, $!, a running and a stopped job (fg works)",
		Limits: "after a resume bash says once more that the stopped job is stopped",
		Needs:  []string{"bash"}, Version: []string{"bash", "-c", "echo $BASH_VERSION"},
		Flags: []string{"--tty"}, Command: []string{"bash", "--norc", "--noprofile", "-i"},
		Prepare: bashPrepare, Check: bashCheck,
	}
}

func bashPrepare(ctx context.Context, s *local.Session) error {
	return atTerminal(ctx, s, []step{
		{"", "# "},
		{"cd /var && v=seven; a=(x y 'z z'); twice() { echo $1$1; }; n=0; sleep 100000 & pid=$!; true\r", "# "},
		// A stopped job, made by hand: Ctrl-Z, when it has its input.
		{"cat\r", "cat\r\n"},
		{"ready\r", "ready\r\nready\r\n"},
		{"\x1a", "Stopped"},
		{"", "# "},
	})
}

func bashCheck(ctx context.Context, s *local.Session, r Round) error {
	// What is typed differs from what is printed: only the latter is waited for.
	ask := `n=$((n+1)); echo "R:$n:$v:${#a[@]}:${a[2]}:$(twice ab):$PWD:$([ $pid = $! ] && kill -0 $pid && echo alive):$(jobs -r | wc -l):$(jobs -s | wc -l):$(tty | cut -c1-9)"` + "\r"
	return atTerminal(ctx, s, []step{
		{ask, fmt.Sprintf("R:%d:seven:3:z z:abab:/var:alive:1:1:/dev/pts/", r.N)},
		{"", "# "},
		// The stopped job comes to the foreground, answers, and is stopped again.
		{"fg %cat\r", "\rcat\r\n"},
		{fmt.Sprintf("round %d\r", r.N), fmt.Sprintf("round %[1]d\r\nround %[1]d\r\n", r.N)},
		{"\x1a", "Stopped"},
		{"", "# "},
	})
}
