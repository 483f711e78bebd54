// Package supply lists what is linked into diapause: a bill of materials in the CycloneDX
// format, and the text of each licence. `make sbom` writes both beside the program.
//
// The way through it: modules.go asks the go command which modules the program and the shim's
// program are compiled from; licences.go reads the licences in their source; bill.go writes
// the bill. database.go keeps a copy of Go's database of vulnerabilities, so that `make vuln` works
// without a network, and never without saying how old its copy is and its digest. The bill lists no program that Diapause runs without linking it, like criu, and none of
// the modules that tests alone use.
package supply
