package criu

import "testing"

// TestInotify watches a directory and a file of the session's root, an overlay,
// by which the kernel gives criu no handle, over two suspends.
func TestInotify(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "s", answering(
		`my ($dir, $file) = ("/tmp/watched", "/tmp/file"); mkdir $dir; open(my $x, ">", $file) or die;
		 my $i = syscall(294, 2048); syscall(254, $i, $dir, 0x100) > 0 or die; syscall(254, $i, $file, 2) > 0 or die;
		 open(my $events, "<&=", $i) or die;`,
		`open(my $new, ">", "$dir/$line") or die; open(my $f, ">>", $file) or die; print $f "x"; close $f;
		 sysread($events, my $b, 4096); my @seen = unpack("l L L L A16 l L L L", $b // ""); "@seen[1, 4, 6]"`))
	s.want("ready")
	for _, n := range []string{"1", "2"} {
		s.cycle()
		if got, want := s.ask(n, "name"+n), "256 name"+n+" 2"; got != want {
			t.Errorf("after a resume it is told %q, want %q: a file made, one changed", got, want)
		}
	}
}
