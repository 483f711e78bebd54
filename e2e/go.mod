module github.com/diapause/diapause/e2e

go 1.26.0

require (
	github.com/diapause/diapause/schemas v0.0.0
	github.com/invopop/jsonschema v0.14.0
	github.com/rogpeppe/go-internal v1.16.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	golang.org/x/sys v0.49.0
)

replace (
	github.com/diapause/diapause/events => ../events
	github.com/diapause/diapause/objectstore => ../objectstore
	github.com/diapause/diapause/schemas => ../schemas
	github.com/diapause/diapause/services => ../services
	github.com/diapause/diapause/workers => ../workers
)
