module github.com/diapause/diapause/schemas

go 1.26.0
