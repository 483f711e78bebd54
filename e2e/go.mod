module github.com/diapause/diapause/e2e

go 1.26.0

require (
	github.com/diapause/diapause/schemas v0.0.0
	github.com/rogpeppe/go-internal v1.16.0
	golang.org/x/sys v0.49.0
)

require golang.org/x/tools v0.26.0 // indirect

replace (
	github.com/diapause/diapause/events => ../events
	github.com/diapause/diapause/objectstore => ../objectstore
	github.com/diapause/diapause/schemas => ../schemas
	github.com/diapause/diapause/services => ../services
	github.com/diapause/diapause/workers => ../workers
)
