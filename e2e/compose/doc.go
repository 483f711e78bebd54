// Package compose tests the fleet of compose/: what compose.yaml, the Dockerfile and .env say
// of each other, what check.sh refuses, and, with DIAPAUSE_LONG=1, all of it on a Docker
// engine of its own: the images are built, the fleet comes up, a session outlives its worker's
// container, and nothing is left.
//
// The way through it: files_test.go and observe_test.go read the files, fleet_test.go runs them. It never
// pulls an image, and never touches the machine's own engine. The long tests need root, what `make
// setup-test` installs, install.sh for the compose plugin, and images.sh, which prepares the base images and
// what is built of other projects' sources.
package compose
