package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/schemas"
)

// Problem is an error as RFC 9457 writes it, with the code, the reason and the hint of the command line.
type Problem struct {
	Type    string         `json:"type" doc:"urn:diapause:error:CODE, or urn:diapause:error:CODE:REASON"`
	Title   string         `json:"title"`
	Status  int            `json:"status"`
	Detail  string         `json:"detail" doc:"What is wrong; where title is a sentence on it, the technical cause. Branch on code and reason: this text changes."`
	Code    string         `json:"code" doc:"failed, usage, no_session, state or timeout"`
	Reason  schemas.Reason `json:"reason,omitempty"`
	Hint    string         `json:"hint,omitempty" doc:"What to do about it"`
	Session string         `json:"session,omitempty"`

	retry int // seconds after which it may be asked again; 0 if nothing is said
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (*Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retry))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="diapause"`)
	}
	return h
}

// ofCode are the statuses of codes, where the reason has none of its own.
var ofCode = map[string]int{
	schemas.CodeFailed:    http.StatusInternalServerError,
	schemas.CodeUsage:     http.StatusBadRequest,
	schemas.CodeNoSession: http.StatusNotFound,
	schemas.CodeState:     http.StatusConflict,
	schemas.CodeTimeout:   http.StatusGatewayTimeout,
}

// ofReason are the statuses of reasons; 0 is that of the code.
var ofReason = map[schemas.Reason]int{
	schemas.ReasonBusy:        0,
	schemas.ReasonConflict:    0,
	schemas.ReasonExists:      0,
	schemas.ReasonExited:      0,
	schemas.ReasonFailed:      0,
	schemas.ReasonWrongState:  0,
	schemas.ReasonNoSnapshot:  0,
	schemas.ReasonNoHistory:   0,
	schemas.ReasonInUse:       0,
	schemas.ReasonRunsOn:      0,
	schemas.ReasonUndone:      0,
	schemas.ReasonQuota:       0,
	schemas.ReasonNoRoom:      http.StatusServiceUnavailable,
	schemas.ReasonHostGone:    http.StatusServiceUnavailable,
	schemas.ReasonNoHost:      http.StatusServiceUnavailable,
	schemas.ReasonCordoned:    0,
	schemas.ReasonSameHost:    0,
	schemas.ReasonTaken:       0,
	schemas.ReasonFellBack:    0,
	schemas.ReasonDeleted:     http.StatusGone,
	schemas.ReasonArchived:    0,
	schemas.ReasonDenied:      http.StatusForbidden,
	schemas.ReasonNoToken:     http.StatusUnauthorized,
	schemas.ReasonNoServer:    http.StatusServiceUnavailable,
	schemas.ReasonStopping:    http.StatusServiceUnavailable,
	schemas.ReasonTooLarge:    http.StatusUnprocessableEntity,
	schemas.ReasonTooMany:     http.StatusTooManyRequests,
	schemas.ReasonUnread:      0,
	schemas.ReasonUnreadable:  http.StatusConflict,
	schemas.ReasonCommandGone: http.StatusGone,
	schemas.ReasonKey:         0,
}

// retryAfter is what a client is told that may ask again, in seconds.
const retryAfter = 5

// statusOf gives the HTTP status of an error of the API.
func statusOf(e *schemas.APIError) int {
	return cmp.Or(ofReason[e.Reason], ofCode[e.Code], http.StatusInternalServerError)
}

// problem makes a problem object of an error.
func problem(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var e *schemas.APIError
	if !errors.As(err, &e) {
		e = &schemas.APIError{Code: schemas.CodeFailed, Text: err.Error()}
		if errors.Is(err, context.DeadlineExceeded) {
			e = &schemas.APIError{Code: schemas.CodeTimeout, Text: "the request takes longer than its time limit", Hint: "what was asked for goes on"}
		}
	}
	return ofAPI(e, statusOf(e))
}

func ofAPI(e *schemas.APIError, status int) *Problem {
	p := &Problem{Type: "urn:diapause:error:" + e.Code, Title: http.StatusText(status), Status: status, Detail: e.Text, Code: e.Code, Reason: e.Reason, Hint: e.Hint, Session: e.Session}
	if status == http.StatusUnauthorized {
		p.Session = "" // the answer to a token that there isn't is the same everywhere, asked or remembered
	}
	if e.Code == schemas.CodeNoSession && p.Hint == "" {
		p.Hint = "GET " + prefix + "/sessions lists those that the token may see"
	}
	if e.Detail != "" {
		p.Title, p.Detail = e.Text, e.Detail
	}
	if e.Reason != "" {
		p.Type += ":" + string(e.Reason)
	}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		p.retry = retryAfter
	}
	return p
}

// refusal is a problem of a request that never reaches the API.
func refusal(status int, detail, hint string) *Problem {
	e := &schemas.APIError{Code: schemas.CodeUsage, Text: detail, Hint: hint}
	switch status {
	case http.StatusUnauthorized:
		e.Code, e.Reason = schemas.CodeFailed, schemas.ReasonNoToken
	case http.StatusForbidden:
		e.Code, e.Reason = schemas.CodeFailed, schemas.ReasonDenied
	case http.StatusServiceUnavailable:
		e.Code, e.Reason = schemas.CodeFailed, schemas.ReasonNoServer
	}
	if status >= http.StatusInternalServerError {
		e.Code = schemas.CodeFailed
	}
	return ofAPI(e, status)
}

// Of what huma finds wrong with a request it makes problem objects, too. It has one variable for that.
func init() {
	huma.NewError = func(status int, text string, errs ...error) huma.StatusError {
		if status == http.StatusUnprocessableEntity {
			status = ofCode[schemas.CodeUsage]
		}
		words := []string{text}
		for _, err := range errs {
			if err == nil {
				continue
			}
			word := err.Error()
			if d, ok := err.(huma.ErrorDetailer); ok {
				word = d.ErrorDetail().Location + ": " + d.ErrorDetail().Message
			}
			words = append(words, word)
		}
		hint := "see " + prefix + "/docs for what the path takes"
		if status == http.StatusUnsupportedMediaType {
			hint = "send Content-Type: application/json"
		}
		return refusal(status, strings.Join(words, "; "), hint)
	}
}

// write writes a problem as the answer.
func (p *Problem) write(w http.ResponseWriter) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = encoder.Marshal(w, p) // the client is gone, then
}
