// Command inside makes the attempts of package attack, where it is started: in a session, as another
// user, or in another network. The tests start it, and read the JSON that it prints.
package main

import (
	"log"
	"os"

	"github.com/diapause/diapause/e2e/attack"
)

func main() {
	if err := attack.Main(os.Stdout); err != nil {
		log.Fatal(err)
	}
}
