package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

const asyncapiFile = "../../schemas/asyncapi.json"

// The words of an AsyncAPI document, as far as they are needed here.
type (
	object = map[string]any
	list   = []any
)

// A channel is a subject, what travels on it, and whether Diapause sends or
// receives it.
type channel struct {
	name, subject, text string
	sends               bool     // else it receives
	messages            []string // documents, or names of special
	reply               []string // of requests
}

var channels = []channel{
	{"activity", schemas.SubjectActivity + ".{tenant}.{session}.{kind}",
		"Something happened in a session. The subject is enough, the message may be empty.", false,
		[]string{"nothing", "activity", "cloud_event", "cloud_event_binary"}, nil},
	{"lease", schemas.SubjectActivity + ".{tenant}.{session}.{lease}.{key}",
		"Something lasts in a session: it isn't suspended for idleness while the lease lives. Also an agent's words, with the trigger as the key.", false,
		[]string{"nothing", "activity", "cloud_event", "cloud_event_binary"}, nil},
	{"session", schemas.SubjectSession + ".{tenant}.{session}",
		"Every revision of a session's record, as it is written: the transition in it says what happened. Not kept here; the log is the stream of the records.", true,
		[]string{"session_record"}, nil},
	{"event", schemas.SubjectEvent + ".{tenant}.{session}.{type}",
		"What happens without changing a session's state. Kept for a year.", true, []string{"event"}, nil},
	{"progress", schemas.SubjectProgress + ".{tenant}.{session}",
		"The steps of an operation, as they happen. Not kept.", true, []string{"progress"}, nil},
	{"use_history", schemas.SubjectUses,
		"The use history: what a scheduler heard of many sessions in a short time. Kept for `diapause policy simulate`.", true, []string{"use_history"}, nil},
	{"command", schemas.SubjectCommand + ".{host}.{tenant}.{session}",
		"Wakes the worker of a host for a session, whose record says what to do.", true, []string{"command"}, nil},
	{"api", schemas.SubjectAPI + ".{verb}",
		"Requests of clients, the endpoints of the NATS micro service diapause. Nothing proves who asks. An error has the headers Nats-Service-Error-Code and Nats-Service-Error, and says the same in its payload.", false,
		[]string{"request"}, answers},
	{"as", schemas.SubjectAs + ".{user}.{verb}",
		"Requests of a NATS user, which alone may publish there: the record says that it asked. Answered as those on " + schemas.SubjectAPI + ".", false,
		[]string{"request"}, answers},
	{"bearer", schemas.SubjectBearer + ".{verb}",
		"Requests of the HTTP gateway for the bearer of a token, which the header " + schemas.HeaderToken + " has: the API finds out who that is. Answered as those on " + schemas.SubjectAPI + ".", false,
		[]string{"request"}, answers},
	{"observe", schemas.SubjectHost + ".{host}.observe",
		"What a host sees of its sessions, by uid. Its other subjects, dial and forget, are for the parts themselves.", false,
		[]string{"nothing"}, []string{"observed"}},
	{"listening", schemas.SubjectIngress + ".{part}",
		"How the listeners of a part are, as those ask who list them.", false, []string{"nothing"}, []string{"listener_view"}},
	kept("records", names.SessionSubject(anySession), "session_record", "The record of each session, every revision of it: the log."),
	kept("hosts", "$KV."+names.Hosts()+".{host}", "host", "What each host says of itself."),
	kept("leases", names.LeaseSubject("{host}"), "host_lease", "Which host is there."),
	kept("offices", names.OfficeSubject("{office}"), "host_lease", "Which process holds an office that one of several has: scheduler."),
	kept("places", names.PlaceSubject("{host}", "{place}"), "place", "The places on hosts that are asked for; for the parts themselves."),
	kept("recovery", "$KV."+names.Fleet()+".generation", "recovery", "Whether the hosts make the records of sessions again."),
	kept("keys", names.KeySubject("{tenant}"), "tenant_keys", "Who may read and write a tenant's images, every revision of it. Every tenant's are under the key fleet."),
	kept("tokens", names.TokenSubject("{digest}"), "token_record", "Who may ask over HTTP, by the SHA-256 digest of the token."),
	kept("listeners", "$KV."+names.Ingress()+".{part}.{at}", "listener_record", "Where a part takes TCP connections for a port of a session, every revision of it."),
	kept("policies", "$KV."+names.Policies()+".{scope}.{name}", "policy_document", "What a class or a session (its name being tenant.session) is held to, every revision of it. Everybody's is under the key all, what they are held to by default under defaults."),
}

// answers are what verbs are answered with.
var answers = []string{
	"view", "explanation", "transition", "snapshot_view", "keys_view", "stats", "usage_report", "policy_view", "policy_test",
	"policy_simulation", "template_view", "token_view", "who_am_i", "listener_view", "store_check", "store_stats", "store_prune", "verified", "error",
}

var (
	names      = stream.NamesWith("")
	anySession = schemas.Name{Tenant: "{tenant}", Session: "{session}"}
)

// kept is a key of a bucket; the names of buckets have a prefix that can be set.
func kept(name, subject, document, text string) channel {
	return channel{"kept_" + name, subject, text + " A bucket with the default prefix.", true, []string{document}, nil}
}

// parameters are the tokens of subjects.
var parameters = object{
	"tenant":  object{"description": "Who owns the session; default if there is one tenant. 1 to 64 of A-Z a-z 0-9 _ -."},
	"session": object{"description": "The session's name within its tenant. 1 to 64 of A-Z a-z 0-9 _ -."},
	"kind":    object{"description": "What happened.", "enum": list{"input", "exec", "http", "heartbeat", "output"}},
	"lease":   object{"description": "What lasts.", "enum": list{"presence", "busy", "hold", "agent"}},
	"key":     object{"description": "Tells a lease from others of its kind: 1 to 128 printable ASCII characters, no space, dot, asterisk or greater-than sign."},
	"host":    object{"description": "The machine with the worker."},
	"place":   object{"description": "One that is asked for, by the requester."},
	"office":  object{"description": "What only one of several does at a time."},
	"digest":  object{"description": "SHA-256, in hexadecimal digits."},
	"part":    object{"description": "What listens: up, or the name of a gateway."},
	"at":      object{"description": "The address, its bytes in hexadecimal digits."},
	"scope":   object{"description": "Whose policy: class or session."},
	"name":    object{"description": "Of the class, or of the session."},
	"user":    object{"description": "The NATS user that asks, as the server's configuration names it."},
	"verb":    object{"description": "What is asked for: run, suspend, resume, ensure, show, list and so on; `nats micro info diapause` lists them."},
	"type":    object{"description": "What happened: warning, deferred, breaker_open and so on."},
}

// special are the messages that are no document of ours.
var special = object{
	"nothing": object{"summary": "An empty message", "payload": object{"type": "null"}},
	"cloud_event": object{
		"summary": "A CloudEvent 1.0, structured; of its data what fits is taken", "contentType": "application/cloudevents+json",
		"payload": object{"type": "object", "required": list{"specversion", "id", "source", "type"}, "properties": object{
			"specversion": object{"const": "1.0"}, "id": token(), "source": token(), "type": token(),
			"time": object{"type": "string", "format": "date-time"},
			"data": object{"description": "An activity, where the type is " + schemas.TypeActivity + "."},
		}},
	},
	"cloud_event_binary": object{
		"summary": "A CloudEvent 1.0, binary: its attributes are headers",
		"headers": object{"type": "object", "required": list{"ce-specversion", "ce-id", "ce-source", "ce-type"}, "properties": object{
			"ce-specversion": object{"const": "1.0"}, "ce-id": token(), "ce-source": token(), "ce-type": token(),
		}},
		"payload": object{},
	},
	"error": object{
		"summary": "A request was refused",
		"headers": object{"type": "object", "required": list{"Nats-Service-Error-Code", "Nats-Service-Error"}, "properties": object{
			"Nats-Service-Error-Code": object{"enum": list{schemas.CodeFailed, schemas.CodeUsage, schemas.CodeNoSession, schemas.CodeState, schemas.CodeTimeout}},
			"Nats-Service-Error":      object{"type": "string"},
		}},
		"payload": object{"type": "object", "required": list{"code", "error"}, "properties": object{
			"code":    object{"description": "As in the header.", "type": "string"},
			"reason":  object{"description": "Tells errors of one code apart, where a client can act on the difference.", "type": "string"},
			"error":   object{"description": "What is wrong, for a person.", "type": "string"},
			"hint":    object{"description": "What to do about it, for a person.", "type": "string"},
			"session": object{"description": "That it is about.", "type": "string"},
		}},
	},
}

func token() object { return object{"type": "string", "minLength": 1} }

func ref(path ...string) object { return object{"$ref": "#/" + strings.Join(path, "/")} }

// document is the AsyncAPI document.
func document() object {
	messages, schemaRefs := maps.Clone(special), object{}
	for name := range documents {
		schemaRefs[name] = object{
			"schemaFormat": "application/schema+json;version=draft-2020-12", "schema": object{"$ref": "jsonschema/" + name + ".json"},
		}
	}
	all, operations := object{}, object{}
	for _, c := range channels {
		for _, m := range append(slices.Clone(c.messages), c.reply...) {
			if messages[m] == nil {
				messages[m] = object{"payload": ref("components", "schemas", m), "contentType": "application/json"}
			}
		}
		all[c.name] = c.channel(c.subject, c.messages)
		operations[c.name] = c.operation()
		if c.reply != nil {
			answers := channel{name: c.name + "_reply", text: "Where the request says that the answer is to go."}
			all[answers.name] = answers.channel("", c.reply)
		}
	}
	return object{
		"asyncapi": "3.0.0",
		"info": object{
			"title": "Diapause", "version": "1", "license": object{"name": "Apache-2.0"},
			"description": "What Diapause hears and says on NATS. Subjects begin with diapause.v1; fields may be added, none is renamed or changes its meaning.",
		},
		"defaultContentType": "application/json",
		"servers": object{"local": object{
			"host": "127.0.0.1:4222", "protocol": "nats", "description": "The server in `diapause up`: without credentials it takes activity, and nothing else.",
		}},
		"channels": all, "operations": operations,
		"components": object{"messages": messages, "schemas": schemaRefs, "parameters": parameters},
	}
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

func (c channel) channel(subject string, messages []string) object {
	out := object{"description": c.text, "messages": object{}, "address": any(nil)}
	if subject != "" {
		out["address"] = subject
		in := object{}
		for _, m := range placeholder.FindAllStringSubmatch(subject, -1) {
			in[m[1]] = ref("components", "parameters", m[1])
		}
		out["parameters"] = in
	}
	for _, m := range messages {
		out["messages"].(object)[m] = ref("components", "messages", m)
	}
	return out
}

func (c channel) operation() object {
	action := "receive"
	if c.sends {
		action = "send"
	}
	out := object{"action": action, "channel": ref("channels", c.name), "summary": c.text}
	if c.reply != nil {
		out["reply"] = object{"channel": ref("channels", c.name+"_reply"), "address": object{"location": "$message.header#/reply"}}
	}
	return out
}

// The committed document is the one of the types and subjects.
func TestAsyncAPI(t *testing.T) {
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(document()); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(asyncapiFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(asyncapiFile)
	if err != nil {
		t.Fatalf("%v; `go test ./schema -update` writes it", err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s isn't what the types say; `go test ./schema -update` writes it again", asyncapiFile)
	}
	validAsyncAPI(t, got)
	if !*update { // the schemas are being written
		resolves(t, got)
	}
}

// validAsyncAPI checks it against the official schema of AsyncAPI 3.
func validAsyncAPI(t *testing.T, data []byte) {
	t.Helper()
	prefix := os.Getenv("DIAPAUSE_PREFIX")
	if prefix == "" {
		prefix = "/opt/diapause"
	}
	official := filepath.Join(prefix, "node", "asyncapi", "node_modules", "@asyncapi", "specs", "schemas", "3.0.0.json")
	s, err := jsonschema.NewCompiler().Compile(official)
	if err != nil {
		t.Fatalf("the official schema: %v: e2e/setup/node.sh installs it", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(doc); err != nil {
		t.Errorf("%s is no AsyncAPI 3 document: %v", asyncapiFile, err)
	}
	delete(doc.(object)["channels"].(object)["activity"].(object), "messages")
	doc.(object)["operations"].(object)["activity"].(object)["action"] = "shout"
	if s.Validate(doc) == nil {
		t.Error("the check takes an operation that shouts")
	}
}

// resolves checks what the official schema can't: that everything that is referred
// to is there.
func resolves(t *testing.T, data []byte) {
	t.Helper()
	var doc any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	count := 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case list:
			for _, e := range v {
				walk(e)
			}
		case object:
			if to, ok := v["$ref"].(string); ok {
				count++
				if err := there(doc, to); err != "" {
					t.Errorf("%s: %s", to, err)
				}
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(doc)
	if count < 30 {
		t.Errorf("found %d references only", count)
	}
}

func there(doc any, to string) string {
	path, inside := strings.CutPrefix(to, "#/")
	if !inside {
		if _, err := os.Stat(filepath.Join(filepath.Dir(asyncapiFile), to)); err != nil {
			return err.Error()
		}
		return ""
	}
	for _, step := range strings.Split(path, "/") {
		o, ok := doc.(object)
		if !ok || o[step] == nil {
			return "there is no " + step
		}
		doc = o[step]
	}
	return ""
}

// Every subject that the program speaks of is in the document.
func TestAsyncAPIKnowsTheSubjects(t *testing.T) {
	for _, subject := range []string{schemas.SubjectActivity, schemas.SubjectSession, schemas.SubjectEvent, schemas.SubjectCommand, schemas.SubjectAPI, schemas.SubjectAs, schemas.SubjectBearer, schemas.SubjectProgress, schemas.SubjectUses, schemas.SubjectIngress} {
		if !slices.ContainsFunc(channels, func(c channel) bool { return strings.HasPrefix(c.subject+".", subject+".") }) {
			t.Errorf("no channel speaks of %s", subject)
		}
	}
	for _, k := range schemas.Kinds() {
		in := "kind"
		if k.Lease() || k == schemas.KindAgent {
			in = "lease"
		}
		if !slices.Contains(parameters[in].(object)["enum"].(list), any(string(k))) {
			t.Errorf("the document doesn't know activity of kind %s", k)
		}
	}
}
