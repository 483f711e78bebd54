package schemas

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Bounds of a session's labels.
const (
	MaxLabels     = 64  // of one session
	MaxLabelKey   = 63  // bytes
	MaxLabelValue = 255 // bytes
)

// LabelRequest changes the labels of a session.
type LabelRequest struct {
	Labels map[string]string `json:"labels,omitempty"`
	Remove []string          `json:"remove,omitempty"` // keys; one that isn't there is no error
}

// Validate says what can't be.
func (r LabelRequest) Validate() error {
	for _, k := range r.Remove {
		if _, both := r.Labels[k]; both {
			return fmt.Errorf("label %q: it is set and removed at once", k)
		}
	}
	return ValidateLabels(r.Labels)
}

// ValidateLabels says what can't be a session's labels.
func ValidateLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fmt.Errorf("%d labels: want %d at most", len(labels), MaxLabels)
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if !validLabelKey(k) {
			return fmt.Errorf("label %q: want 1 to %d letters, digits, any of ._/-", k, MaxLabelKey)
		}
		if v := labels[k]; len(v) > MaxLabelValue || strings.ContainsFunc(v, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }) {
			return fmt.Errorf("label %s: want at most %d bytes of printable text", k, MaxLabelValue)
		}
	}
	return nil
}

func validLabelKey(k string) bool {
	return k != "" && len(k) <= MaxLabelKey && k[0] != '-' && k[len(k)-1] != '-' && !strings.ContainsFunc(k, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._/-", c)
	})
}

// Relabel gives the labels with the changes that are asked for; nil if none are left. It changes none of labels.
func Relabel(labels map[string]string, r LabelRequest) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, r.Labels)
	for _, k := range r.Remove {
		delete(out, k)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Labelled reports whether labels have all that is wanted: each "K=V", or "K" for any value.
func Labelled(labels map[string]string, want []string) bool {
	for _, w := range want {
		k, v, exact := strings.Cut(w, "=")
		has, ok := labels[k]
		if !ok || exact && has != v {
			return false
		}
	}
	return true
}

// LabelText shows labels for a person: K=V, in the order of their keys.
func LabelText(labels map[string]string) string {
	all := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, k+"="+labels[k])
	}
	return strings.Join(all, " ")
}
