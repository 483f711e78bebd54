package gate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxHello is more than any server's first line has, in bytes.
const maxHello = 64 << 10

// plainHello reads a NATS server's first line, and gives it without the offer of TLS. Some
// clients take that offer though they have nothing to check a certificate by.
func plainHello(from *bufio.Reader) ([]byte, error) {
	line, err := from.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("read the server's first line: %w", err)
	}
	text, ok := bytes.CutPrefix(line, []byte("INFO "))
	if !ok {
		return nil, errors.New("the server's first line is no INFO")
	}
	var info map[string]json.RawMessage
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, fmt.Errorf("read the server's first line: %w", err)
	}
	delete(info, "tls_available")
	if text, err = json.Marshal(info); err != nil {
		return nil, err
	}
	return append(append([]byte("INFO "), text...), "\r\n"...), nil
}
