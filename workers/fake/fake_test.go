package fake_test

import (
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
	"github.com/diapause/diapause/workers/fake"
)

func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Host {
		d := fake.New()
		return drivertest.Host{
			Open:     func(*testing.T) driver.Driver { return d }, // the host is all that it knows
			Counting: schemas.Spec{Command: []string{"count"}},
			Count: func(t *testing.T, _ driver.Driver, uid schemas.UID) int {
				n, ok := d.Count(uid)
				if !ok {
					t.Fatalf("session %s doesn't count", uid)
				}
				return n
			},
			Missing: schemas.Spec{Command: []string{"missing"}},
			End:     func(_ *testing.T, _ driver.Driver, uid schemas.UID) { d.Exit(uid, 7) },
		}
	})
}
