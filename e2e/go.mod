module github.com/diapause/diapause/e2e

go 1.26.0
