package programs

import (
	_ "embed"
)

//go:embed Count.java
var countJava string

// JVM is a Java program with a heap that is collected all the time, threads and a
// timer.
func JVM() Program {
	w := &watched{}
	return Program{
		Name: "java", State: "heap by digest and identity, 4 threads and a timer counting, garbage collected at every check, open file, unix socket",
		Needs: []string{"java", "javac", python}, Version: []string{"/bin/sh", "-c", "java -version 2>&1 | tr -d '\"'"},
		Command: []string{"/bin/sh", "-c", `printf %s "$0" >/tmp/Count.java && javac -d /tmp /tmp/Count.java &&
exec java -Xmx256m -cp /tmp Count`, countJava},
		Prepare: w.prepare, Check: w.check,
	}
}
