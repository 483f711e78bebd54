// Package dist shows what `make dist` makes: that the same commit gives the same bytes, and that installing,
// upgrading and removing the Debian package touches no running session and no data. Debian's own dpkg does it,
// on a copy of this machine's root that takes every change; systemctl is a script that notes what it is asked.
// It takes a whole build, so most of it runs with DIAPAUSE_LONG=1.
//
// The package has tests alone. They need root, an installed CRIU, dpkg and systemd-analyze.
package dist
