package shim

import "testing"

func TestWaits(t *testing.T) {
	const where = "0x1 0x0 0x7ffd21dc3d80 0x0 0x0 0x0 0x7ffd21dc3d40 0x7f7de239b545"
	first := waits{}
	first.note("7", "35 "+where+"\n", nil)
	first.note("8", "running\n", nil)
	first.note("9", "219 "+where+"\n", nil)
	second := waits{}
	for _, tid := range []string{"7", "8", "9"} {
		second.note(tid, "219 "+where+"\n", first)
	}
	third := waits{}
	third.note("7", "219 "+where+"\n", second)
	moved := waits{}
	moved.note("7", "219 0x2 0x0 0x7ffd21dc3d80 0x0 0x0 0x0 0x7ffd21dc3d40 0x7f7de239b545\n", second)
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"a call", first[7].number, 35},
		{"a call that is continued", second[7].number, 35},
		{"a call that is continued again", third[7].number, 35},
		{"a call that was never seen", second[9].number, 219},
		{"a thread that ran", second[8].number, 219},
		{"another call", moved[7].number, 219},
	} {
		if c.got != c.want {
			t.Errorf("%s has number %d, want %d", c.what, c.got, c.want)
		}
	}
	if _, ok := first[8]; ok {
		t.Error("a thread that runs waits")
	}
}
