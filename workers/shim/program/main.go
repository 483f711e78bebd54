// Command program is a shim and nothing else: what diapause starts for each process tree
// that it holds. It is a program of its own because a shim lives as long as its session:
// the whole of diapause takes eight times the memory, and its packages have timers that run
// in every process.
//
// services/cmd/build.sh builds it and puts it into diapause, by package embedded. It must
// link neither a NATS server nor a client of Docker or S3: a test holds that.
package main

import (
	"os"

	"github.com/diapause/diapause/workers/shim"
)

func main() { os.Exit(shim.Main(os.Args[1:])) }
