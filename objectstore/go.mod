module github.com/diapause/diapause/objectstore

go 1.26.0

require (
	filippo.io/age v1.3.2
	github.com/diapause/diapause/schemas v0.0.0
	github.com/klauspost/compress v1.20.3
	github.com/zeebo/blake3 v0.2.4
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.49.0
	pgregory.net/rapid v1.3.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	filippo.io/hpke v0.4.0 // indirect
	filippo.io/nistec v0.0.4 // indirect
	github.com/klauspost/cpuid/v2 v2.0.12 // indirect
	golang.org/x/crypto v0.55.0 // indirect
	golang.org/x/term v0.45.0 // indirect
)

replace github.com/diapause/diapause/schemas => ../schemas

tool filippo.io/age/cmd/age
