package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// The ports of up and gateway are led to as those of ingress.
func TestPortFlags(t *testing.T) {
	for text, want := range map[string]string{"localhost:3000": "localhost:3000", "keep": "", "": "", "a/b": "-", "a b": "-"} {
		var f webFlags
		cmd := &cobra.Command{}
		f.flags(cmd)
		if err := cmd.ParseFlags([]string{"--host-header", text, "--wake-timeout", "2m", "--connect-timeout", "3s", "--answer-timeout", "4s"}); err != nil {
			t.Fatal(err)
		}
		conf, err := f.config("")
		if want == "-" {
			if err == nil {
				t.Errorf("--host-header %q is taken", text)
			}
			continue
		}
		if err != nil || conf.HostHeader != want || conf.Budgets.Wake != 2*time.Minute || conf.Budgets.Connect != 3*time.Second || conf.Budgets.FirstByte != 4*time.Second {
			t.Errorf("--host-header %q: %+v, %v", text, conf, err)
		}
	}
}
