package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// What a resume had to decode twice is a stage of its own, with its bytes; one that decodes each
// frame once has no such stage.
func TestStageOfWhatIsDecodedAgain(t *testing.T) {
	for _, again := range []int64{0, 4096} {
		all := restoreStages(driver.NewLaps(time.Now()), image.ReadTimes{Again: again}, 8192, 8192)
		i := slices.IndexFunc(all, func(s schemas.Stage) bool { return s.Name == "again" })
		if (i >= 0) != (again > 0) || i >= 0 && all[i].Bytes != again {
			t.Errorf("%d bytes that were decoded again: the stages are %+v", again, all)
		}
	}
}
