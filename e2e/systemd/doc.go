// Package systemd shows that the units of services/systemd are ones, and that what they start tells systemd
// how it is. The program runs with a socket in systemd's place, and scheduler and api as their units say, with the
// credentials that systemd would give them: no test here has systemd as its init.
//
// The package has tests alone. They need root, an installed CRIU and systemd-analyze.
package systemd
