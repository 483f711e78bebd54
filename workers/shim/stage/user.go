package stage

import (
	"bufio"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
)

// account is who a command runs as.
type account struct {
	uid, gid uint32
	groups   []uint32
	home     string
}

// lookUser resolves a user, "user" or "user:group", each by its number or its name in the
// session's own /etc/passwd and /etc/group; nothing is root.
func lookUser(user string) (account, error) {
	if user == "" {
		user = "0"
	}
	name, group, hasGroup := strings.Cut(user, ":")
	a, err := lookAccount(name)
	if err != nil {
		return account{}, err
	}
	if hasGroup {
		gid, err := lookGroup(group)
		if err != nil {
			return account{}, err
		}
		a.gid, a.groups = gid, nil
	}
	return a, nil
}

func lookAccount(name string) (account, error) {
	uid, numErr := number(name)
	found := account{uid: uid, home: "/"}
	var login string
	err := eachLine("/etc/passwd", func(f []string) bool {
		if len(f) < 6 || f[0] != name && (numErr != nil || f[2] != name) {
			return true
		}
		u, errU := number(f[2])
		g, errG := number(f[3])
		if errU != nil || errG != nil {
			return true
		}
		login, found = f[0], account{uid: u, gid: g, home: f[5]}
		return false
	})
	if err != nil {
		return account{}, refuse("user %q can't be looked up: %v", name, err)
	}
	if login == "" {
		if numErr != nil {
			return account{}, refuse("there is no user %q in the session's /etc/passwd", name)
		}
		return found, nil
	}
	err = eachLine("/etc/group", func(f []string) bool {
		if len(f) < 4 || !slices.Contains(strings.Split(f[3], ","), login) {
			return true
		}
		if g, err := number(f[2]); err == nil {
			found.groups = append(found.groups, g)
		}
		return true
	})
	if err != nil {
		return account{}, refuse("the groups of user %q can't be looked up: %v", name, err)
	}
	return found, nil
}

// lookGroup resolves a number, or a name of the session's own /etc/group.
func lookGroup(name string) (uint32, error) {
	gid, numErr := number(name)
	if numErr == nil {
		return gid, nil
	}
	found := false
	err := eachLine("/etc/group", func(f []string) bool {
		if len(f) < 3 || f[0] != name {
			return true
		}
		gid, numErr = number(f[2])
		found = numErr == nil
		return !found
	})
	if err != nil {
		return 0, refuse("group %q can't be looked up: %v", name, err)
	}
	if !found {
		return 0, refuse("there is no group %q in the session's /etc/group", name)
	}
	return gid, nil
}

func number(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	return uint32(n), err
}

// eachLine calls f with the fields of each line until it says no. A file that
// isn't there has no lines.
func eachLine(path string, f func(fields []string) bool) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if !f(strings.Split(lines.Text(), ":")) {
			return nil
		}
	}
	return lines.Err()
}
