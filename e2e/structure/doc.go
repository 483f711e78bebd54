// Package structure holds tests of the shape of this repository: which module
// may import which, that every package says what it is for, how long files and
// functions may be, how many methods a type may have with those of what it embeds,
// that names say something, and that prose keeps to plain words. The package has
// tests alone.
package structure
