package criu

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
)

const goarch = runtime.GOARCH

// cpuFeatures lists the features that programs can find in the processor.
func cpuFeatures() ([]string, error) {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return nil, fmt.Errorf("read the processor's features: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); ok && (name == "flags" || name == "Features") {
			all := strings.Fields(value)
			slices.Sort(all)
			return slices.Compact(all), nil
		}
	}
	return nil, nil
}
