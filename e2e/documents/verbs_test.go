package documents_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// command finds a call of the program in a document, up to what ends a command of a shell.
var command = regexp.MustCompile("\\bdiapause ([a-z][^`\n|;&#()]*)")

// Every verb of the program that a document shows is there, with the flags that it is
// shown with.
func TestVerbs(t *testing.T) {
	program := filepath.Join(bin, "diapause")
	helps := map[string]string{}
	help := func(verb string) string {
		if _, ok := helps[verb]; !ok {
			out, _ := exec.Command(program, append(strings.Fields(verb), "--help")...).CombinedOutput() // what there is to say is in it
			helps[verb] = string(out)
		}
		return helps[verb]
	}
	shown := 0
	for doc, text := range readTree(t).documents {
		if doc == "CHANGELOG.md" { // it speaks of what was, too
			continue
		}
		var calls []string
		for _, m := range quoted.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			calls = append(calls, m[1])
		}
		calls = append(calls, fenced.FindAllString(text, -1)...)
		calls = append(calls, regexp.MustCompile(`(?m)^    .*$`).FindAllString(text, -1)...)
		for _, call := range calls {
			for _, m := range command.FindAllStringSubmatch(call, -1) {
				shown++
				check(t, doc, m[1], help)
			}
		}
	}
	if shown < 50 {
		t.Errorf("only %d calls are looked at", shown)
	}
}

// check looks at one call. help is what the program says of a verb.
func check(t *testing.T, doc, call string, help func(verb string) string) {
	t.Helper()
	ours, _, _ := strings.Cut(call+" ", " -- ") // what is run isn't ours
	words := strings.Fields(ours)
	verb := words[0]
	if verb == "help" || verb == "completion" {
		return
	}
	if !strings.Contains(help(verb), "\n  diapause "+verb) {
		t.Errorf("%s shows `diapause %s`: there is no verb %q", doc, call, verb)
		return
	}
	if len(words) > 1 && strings.Contains(help(verb), "\nAvailable Commands:") {
		switch sub := verb + " " + words[1]; {
		case strings.Contains(help(sub), "\n  diapause "+sub):
			verb = sub
		case words[1][0] != '-' && !strings.Contains(help(verb), "\n  diapause "+verb+" NAME"): // which takes names, too
			t.Errorf("%s shows `diapause %s`: there is no %q", doc, call, sub)
			return
		}
	}
	if verb == "exec" {
		ours = strings.Join(words[:min(2, len(words))], " ") // the rest is of what is run
	}
	for _, flag := range regexp.MustCompile(`(?:^|[\s\[])(--?[a-z][a-z-]*)`).FindAllStringSubmatch(ours, -1) {
		if !regexp.MustCompile(`(?m)^ +(-\w, )?`+flag[1]+`[ ,\n]|^ +`+flag[1]+`, `).MatchString(help(verb)) && flag[1] != "-h" {
			t.Errorf("%s shows `diapause %s`: %s has no flag %s", doc, call, verb, flag[1])
		}
	}
}
