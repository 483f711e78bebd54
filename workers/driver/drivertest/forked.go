package drivertest

import "fmt"

// Forked is the command of a session of several processes, each of which has as many bytes of memory of
// its own as each says. It makes the file ready when all of them have it.
func Forked(processes, each int, ready string) []string {
	return []string{"/usr/bin/python3", "-c", fmt.Sprintf(`
import os, time
others = %d - 1
r, w = os.pipe()
first = all(os.fork() for _ in range(others))
m = bytearray(os.urandom(4096) * (%d // 4096))
if first:
    for _ in range(others):
        os.read(r, 1)
    open(%q, "w").close()
else:
    os.write(w, b"r")
os.close(r); os.close(w)
time.sleep(1000000)
`, processes, each, ready)}
}
