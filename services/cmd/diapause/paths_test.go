package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestVerbsHavePaths: the gateway's README says of each verb which path it has, or why it has none, and of no other.
func TestVerbsHavePaths(t *testing.T) {
	text, err := os.ReadFile("../../gateway/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Verbs of the command line\n")
	table, _, _ = strings.Cut(table, "\n## ")
	said := map[string]bool{}
	for line := range strings.SplitSeq(table, "\n") {
		if cell := strings.Split(line, " | ")[0]; strings.HasPrefix(cell, "| `") {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
				said[m[1]] = true
			}
		}
	}
	var each func(cmd *cobra.Command, above string)
	each = func(cmd *cobra.Command, above string) {
		for _, sub := range cmd.Commands() {
			verb := strings.TrimSpace(above + " " + sub.Name())
			switch {
			case sub.Hidden:
			case said[verb]:
				delete(said, verb)
			case sub.RunE != nil && !sub.HasSubCommands():
				t.Errorf("the table has no %s", verb)
			}
			if verb != "completion" {
				each(sub, verb)
			}
		}
	}
	each(newRoot(), "")
	for verb := range said {
		t.Errorf("there is no verb %s", verb)
	}
}
