package image

import (
	"os"
	"testing"
)

func TestTicks(t *testing.T) {
	idle, total := ticks([]byte("cpu  10 20 30 400 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"))
	if idle != 405 || total != 486 {
		t.Errorf("%d of %d ticks are idle, want 405 of 486", idle, total)
	}
	if idle, total := ticks([]byte("nonsense")); idle != 0 || total != 0 {
		t.Errorf("nonsense has %d idle ticks of %d", idle, total)
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	if idle, total := ticks(stat); idle == 0 || total <= idle {
		t.Errorf("this machine has %d idle ticks of %d", idle, total)
	}
}
