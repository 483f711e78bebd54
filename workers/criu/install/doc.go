// Package install holds install.sh, which puts CRIU into a private prefix, and
// its tests. The script is the way to get CRIU, no Go code of this package is: it
// never runs as part of the program.
package install
