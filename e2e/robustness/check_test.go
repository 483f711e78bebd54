package robustness_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// judgement bounds how long porcupine tries.
const judgement = 3 * time.Minute

// linearizable holds a history against the model. It says what is wrong with it.
func linearizable(history []porcupine.Operation) (string, porcupine.LinearizationInfo) {
	result, info := porcupine.CheckOperationsVerbose(sessions, history, judgement)
	switch result {
	case porcupine.Ok:
		return "", info
	case porcupine.Unknown:
		return fmt.Sprintf("porcupine came to no end within %s", judgement), info
	}
	return "no order of the operations explains what the clients were told: " + culprit(history), info
}

// culprit names the session and the first answer that can't be explained.
func culprit(history []porcupine.Operation) string {
	for _, part := range sessions.Partition(history) {
		if porcupine.CheckOperations(sessions, part) {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
		for n := range part {
			// What began before, and has no answer by then, may have happened or not.
			started := slices.Clone(part[:n+1])
			for _, o := range part[n+1:] {
				if o.Call < part[n].Return && changes(o.Input.(input).Verb) {
					o.Output, o.Return = output{Outcome: unknown, UID: o.Output.(output).UID}, never
					started = append(started, o)
				}
			}
			if !porcupine.CheckOperations(sessions, started) {
				o := part[n]
				return fmt.Sprintf("session %s: %+v is answered %+v, %s after the beginning",
					o.Input.(input).Session, o.Input, o.Output, time.Duration(o.Return))
			}
		}
	}
	return "each session alone is well"
}

// afterlife looks for sessions that counted when their remove had been answered.
// The model can't: until then they may.
func afterlife(history []porcupine.Operation) (out []string) {
	removed := map[string]int64{} // by name
	for _, o := range history {
		in := o.Input.(input)
		if in.Verb == opRemove && o.Output.(output).Outcome == ok {
			removed[in.Session+"/"+o.Output.(output).UID] = o.Return
		}
	}
	for _, o := range history {
		in, got := o.Input.(input), o.Output.(output)
		if end, was := removed[in.Session+"/"+got.UID]; in.Verb == opCount && was && o.Call > end {
			out = append(out, fmt.Sprintf("session %s (%s) counts to %d, %s after its remove was answered",
				in.Session, got.UID, got.Count, time.Duration(o.Call-end)))
		}
	}
	return out
}

// logged checks the log: every record is what folding its transitions gives,
// versions have no gaps, and what clients were told is in it.
func (f *machines) logged(answers []schemas.View) (out []string) {
	var written map[string]schemas.SessionRecord
	f.patiently(func() (err error) {
		out, written, err = f.fold()
		return err
	})
	for _, a := range answers {
		got, there := written[revision(a.Name, a.Version)]
		if !there || got.UID != a.UID || got.State != a.State || !got.Transition.At.Equal(a.LastTransition.At) {
			out = append(out, fmt.Sprintf("a client was told of %s (%s), which the log doesn't have", revision(a.Name, a.Version), a.LastTransition.Type))
		}
	}
	return out
}

func revision(name string, version uint64) string { return fmt.Sprintf("%s@%d", name, version) }

// fold reads the whole log, and says what in it doesn't follow.
func (f *machines) fold() (out []string, written map[string]schemas.SessionRecord, err error) {
	last := map[schemas.Name]schemas.SessionRecord{}
	written = map[string]schemas.SessionRecord{}
	err = f.records.Log(f.t.Context(), func(v statekv.Versioned) error {
		prev, at := last[v.Name()], revision(v.Name().String(), v.Version)
		next, err := session.Apply(prev, v.Transition)
		if err != nil {
			out = append(out, fmt.Sprintf("revision %s: %v", at, err))
		} else if want, got := encoded(next), encoded(v.SessionRecord); !bytes.Equal(want, got) {
			out = append(out, fmt.Sprintf("revision %s is %s; its transition makes %s", at, got, want))
		}
		if v.Version != prev.Version+1 {
			out = append(out, fmt.Sprintf("version %d of %s follows version %d", v.Version, v.Name(), prev.Version))
		}
		last[v.Name()], written[at] = v.SessionRecord, v.SessionRecord
		return nil
	})
	return out, written, err
}

// patiently asks until someone answers: a cluster that is whole again may still be
// choosing who does.
func (f *machines) patiently(ask func() error) {
	f.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatal(err)
		}
	}
}

func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// shortly is how long a host may keep what went on elsewhere, before its worker is
// started again to look for it.
const shortly = 20 * time.Second

// leftovers are what is still there when every session has been removed. A host that
// was away while its sessions went on elsewhere may keep frozen trees of them; its
// worker finds them at the latest when it starts.
func (f *machines) leftovers() []string {
	if f.elsewhere != nil {
		return append(f.leftAfter(limit), f.elsewhere.end()...)
	}
	out := f.leftAfter(shortly)
	if len(out) == 0 {
		return nil
	}
	f.t.Logf("kept until the workers start again: %v", out)
	for _, p := range f.parts {
		if strings.HasPrefix(p.name, "worker ") {
			p.end()
			p.begin()
		}
	}
	return f.leftAfter(limit)
}

func (f *machines) leftAfter(wait time.Duration) (out []string) {
	for deadline := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
		if out = f.left(); len(out) == 0 || time.Now().After(deadline) {
			return out
		}
	}
}

func (f *machines) left() (out []string) {
	if f.elsewhere != nil {
		return f.elsewhere.left()
	}
	f.must(f.store.List(f.t.Context(), "default/", func(i objectstore.Info) error {
		out = append(out, "the store keeps "+i.Name)
		return nil
	}))
	for _, h := range f.hosts {
		there, err := h.fake.Recover(f.t.Context())
		f.must(err)
		for _, i := range there {
			out = append(out, fmt.Sprintf("host %s keeps a tree of session %s, %s", h.id, i.Name, i.State))
		}
	}
	return out
}

// saved is one operation in a history's file.
type saved struct {
	Client int    `json:"client"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
	In     input  `json:"in"`
	Out    output `json:"out"`
}

// save keeps a history and its picture in a directory, and gives its file and the
// command that checks it again.
func save(dir, name string, history []porcupine.Operation, info porcupine.LinearizationInfo) (file, again string, err error) {
	var lines bytes.Buffer
	for _, o := range history {
		lines.Write(encoded(saved{o.ClientId, o.Call, o.Return, o.Input.(input), o.Output.(output)}))
		lines.WriteByte('\n')
	}
	file = filepath.Join(dir, name+".jsonl")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		return "", "", err
	}
	if err := porcupine.VisualizePath(sessions, info, filepath.Join(dir, name+".html")); err != nil {
		return "", "", err
	}
	return file, "go test ./e2e/robustness -run TestKept -robustness.history " + file, nil
}

// load reads a history that save kept.
func load(file string) ([]porcupine.Operation, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []porcupine.Operation
	for d := json.NewDecoder(bytes.NewReader(data)); d.More(); {
		var s saved
		if err := d.Decode(&s); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		out = append(out, porcupine.Operation{ClientId: s.Client, Call: s.Call, Return: s.Return, Input: s.In, Output: s.Out})
	}
	return out, nil
}
