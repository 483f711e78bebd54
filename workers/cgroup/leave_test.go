package cgroup

import "testing"

func TestGroupIn(t *testing.T) {
	const text = "5:freezer:/a\n4:cpu,cpuacct:/b:c\n1:name=systemd:/d\n0::/e\n"
	for _, c := range []struct {
		m    mount
		path string
		ok   bool
	}{
		{mount{version: 1, controllers: []string{"freezer"}}, "/a", true},
		{mount{version: 1, controllers: []string{"cpuacct", "cpu"}}, "/b:c", true},
		{mount{version: 1, controllers: []string{"memory"}}, "", false},
		{mount{version: 1}, "", false},
		{mount{version: 2}, "/e", true},
	} {
		if path, ok := groupIn(text, c.m); path != c.path || ok != c.ok {
			t.Errorf("%+v: %q, %v", c.m, path, ok)
		}
	}
}

func TestIsBelow(t *testing.T) {
	for path, want := range map[string]bool{"/sys/x": true, "/sys/x/a": true, "/sys/xa": false, "/sys": false, "/sys/x/../y": false} {
		if isBelow(path, "/sys/x") != want {
			t.Errorf("%s: want %v", path, want)
		}
	}
}
