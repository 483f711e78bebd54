package documents_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	aVerb   = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +[A-Z]`)
	aFlag   = regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z][a-z-]*)`)
	twoDash = regexp.MustCompile("`(--[a-z][a-z-]*)`")
)

// The list of flags names each verb of the program with exactly its flags.
func TestFlags(t *testing.T) {
	documented := map[string][]string{}
	for _, item := range items(section(t, "Flags")) {
		names, flags, ok := strings.Cut(item, ": ")
		if !ok {
			t.Fatalf("no flags in %q", item)
		}
		for _, verb := range quoted.FindAllStringSubmatch(names, -1) {
			documented[verb[1]] = firsts(twoDash, flags)
		}
	}
	shown := 0
	for _, top := range verbs(t, "") {
		for _, verb := range append(verbs(t, top), top) {
			shown++
			text := helpOf(t, verb)
			_, flags, _ := strings.Cut(text, "\nFlags:\n")
			flags, _, _ = strings.Cut(flags, "\nGlobal Flags:")
			want := slices.DeleteFunc(firsts(aFlag, flags), func(f string) bool { return f == "--help" })
			got := documented[verb]
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("services/README.md gives %s the flags %v; it has %v", verb, got, want)
			}
			delete(documented, verb)
		}
	}
	for verb := range documented {
		t.Errorf("services/README.md lists flags of %q, which is no verb", verb)
	}
	if shown < 40 {
		t.Errorf("only %d verbs are looked at", shown)
	}
}

// The tables of verbs have all that the program has.
func TestEveryVerbIsDescribed(t *testing.T) {
	text := section(t, "Verbs")
	for _, verb := range verbs(t, "") {
		if !regexp.MustCompile("`" + verb + "[ `]").MatchString(text) {
			t.Errorf("services/README.md doesn't describe the verb %s", verb)
		}
	}
}

// verbs gives the verbs below one, or all of the program, but for those of cobra.
func verbs(t *testing.T, below string) (names []string) {
	t.Helper()
	text := helpOf(t, below)
	if below != "" {
		var ok bool
		if _, text, ok = strings.Cut(text, "\nAvailable Commands:\n"); !ok {
			return nil
		}
		below += " "
	}
	text, _, _ = strings.Cut(text, "\nFlags:\n")
	for _, name := range firsts(aVerb, text) {
		if name != "help" && name != "completion" && name != "diapause" {
			names = append(names, below+name)
		}
	}
	return names
}

func helpOf(t *testing.T, verb string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(bin, "diapause"), append(strings.Fields(verb), "--help")...).Output()
	if err != nil {
		t.Fatalf("diapause %s --help: %v", verb, err)
	}
	return string(out)
}

func firsts(r *regexp.Regexp, text string) (all []string) {
	for _, m := range r.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}
