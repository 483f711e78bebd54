package events

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/diapause/diapause/schemas"
)

// ReadAnswer decodes an answer of the API into out. If the API answered an error, that is
// what it returns, an *schemas.APIError.
func ReadAnswer(m *nats.Msg, out any) error {
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		e := &schemas.APIError{}
		if json.Unmarshal(m.Data, e) != nil || e.Code != code { // of a server that has headers alone
			e = &schemas.APIError{Code: code, Text: m.Header.Get(micro.ErrorHeader)}
		}
		return e
	}
	data, err := unpacked(m)
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// answerMost bounds the bytes of an answer.
const answerMost = 256 << 20

// unpacked gives the bytes of an answer.
func unpacked(m *nats.Msg) ([]byte, error) {
	switch how := m.Header.Get(schemas.HeaderEncoding); how {
	case "":
		return m.Data, nil
	case schemas.Gzip:
	default:
		return nil, fmt.Errorf("it is in the encoding %q, which isn't known", how)
	}
	in, err := gzip.NewReader(bytes.NewReader(m.Data))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(in, answerMost+1))
	if err == nil && len(data) > answerMost {
		err = fmt.Errorf("it has more than %d bytes", answerMost)
	}
	return data, err
}
