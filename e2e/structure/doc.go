// Package structure holds tests of the shape of this repository: which module
// may import which, that every package says what it is for, that no file grows
// out of hand, and that no package has a name that says nothing. The package has
// tests alone.
package structure
