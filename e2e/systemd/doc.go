// Package systemd shows that the units of services/systemd are ones, and that what they start tells systemd
// how it is. The program runs with a socket in systemd's place: no test here has systemd as its init.
//
// The package has tests alone. They need root, an installed CRIU and systemd-analyze.
package systemd
