package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// seccompProfile reads the profile that --seccomp names.
func seccompProfile(name string) (string, error) {
	if name == "" || name == schemas.Unconfined {
		return name, nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return "", usagef("--seccomp: %v", err)
	}
	if !json.Valid(b) {
		return "", usagef("--seccomp %s: want unconfined or a file of JSON", name)
	}
	return string(b), nil
}

// rootImage begins a --root that is a container image.
const rootImage = "oci:"

// rootPath completes a path in what --root names, which the host of the session reads.
func rootPath(root string) (string, error) {
	for _, prefix := range []string{rootImage + "tar:", rootImage + "layout:"} {
		if rel, ok := strings.CutPrefix(root, prefix); ok && rel != "" {
			path, err := filepath.Abs(rel)
			if err != nil {
				return "", usagef("--root: %v", err)
			}
			return prefix + path, nil
		}
	}
	if root == rootImage {
		return "", usagef("--root %s: name the image, as oci:alpine:3", root)
	}
	return root, nil
}

// ofShells are the variables that a command of a person's shell expects.
var ofShells = []string{"PATH", "HOME", "USER", "SHELL", "LANG", "TERM"}

// environment is some of the caller's own, and what was asked for.
func environment(own, extra []string) ([]string, error) {
	var out []string
	for _, k := range own {
		if v, ok := os.LookupEnv(k); ok {
			out = append(out, k+"="+v)
		}
	}
	for _, e := range extra {
		k, _, given := strings.Cut(e, "=")
		if k == "" {
			return nil, usagef("--env %q: want K=V or K", e)
		}
		if !given {
			v, ok := os.LookupEnv(k)
			if !ok {
				return nil, usagef("--env %s: it is not set here", k)
			}
			e = k + "=" + v
		}
		out = append(out, e)
	}
	return out, nil
}
