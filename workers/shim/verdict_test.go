package shim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/diapause/diapause/workers/driver"
)

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		log  string
		kind driver.Kind
		code string
	}{
		{"", driver.Transient, ""},
		{"(00.01)    12: Error (criu/files-reg.c:2143): Can't open file x on restore: No such file or directory\n", driver.Refused, "criu/files-reg.c:2143 ENOENT"},
		{"(00.01) Error (criu/sk-tcp.c:405): Can't restore not-sent send queue data: Broken pipe\n", driver.Refused, "criu/sk-tcp.c:405 EPIPE"},
		{"(00.01) Error (criu/x.c:1): Can't fork: Resource temporarily unavailable\n", driver.Transient, "criu/x.c:1 EAGAIN"},
		{"(00.01) Error (criu/pstree.c:7): Can't find a session leader for 12\n", driver.Transient, "criu/pstree.c:7"},
		{"Error (criu/util.c:1): Can't setup RLIMIT_NOFILE: Operation not permitted\nError (criu/pstree.c:7): first: No such device\nError (criu/b.c:8): later\n", driver.Refused, "criu/pstree.c:7 ENODEV"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, logName), []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		if v := judge(criuErrors(dir)); v.kind != c.kind || v.code != c.code {
			t.Errorf("%q gives %+v", c.log, v)
		}
	}
}
