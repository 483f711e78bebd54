package events

import (
	"encoding/json"
	"fmt"

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
	if err := json.Unmarshal(m.Data, out); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}
