// Package install holds install.sh, which puts CRIU as it is released into a private prefix,
// build.sh, which builds it with the patches of workers/criu/patches beside that, and
// their tests. The scripts are the way to get CRIU, no Go code of this package is: it
// never runs as part of the program.
package install
