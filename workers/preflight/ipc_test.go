package preflight

import (
	"reflect"
	"testing"
)

func TestParseSystemV(t *testing.T) {
	const segments = `       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap
      4660          0   600                  8192     2     2      2     0     0     0     0 1795385914          0 1795385914                  4096                     0
         0          1  1640                  4096     2     2      1     0     0     0     0 1795385914          0 1795385914                  4096                     0
`
	const sets = `       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime
        66          0   666          3     0     0     0     0 1795385914 1795385914
`
	if got, want := parseSystemV(segments, sets), (SystemV{Removed: 1, Sets: 1}); !reflect.DeepEqual(got, want) {
		t.Errorf("it is %+v, want %+v", got, want)
	}
	if got := parseSystemV("", ""); !reflect.DeepEqual(got, SystemV{}) {
		t.Errorf("of nothing it is %+v", got)
	}
}

func TestCrowded(t *testing.T) {
	files := []File{{Num: 0}, {Num: 9}, {Num: 2}}
	for limit, want := range map[uint64]bool{0: true, 3: true, 5: true, 6: false, 9: false, 10: false} {
		if got := crowded(limit, files); !reflect.DeepEqual(got, want) {
			t.Errorf("with a limit of %d it is %t", limit, got)
		}
	}
}
