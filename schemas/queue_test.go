package schemas

import "testing"

func TestQueuePlaceInWords(t *testing.T) {
	for want, q := range map[string]QueuePlace{
		"2nd of 5, waiting for memory=1G":      {Place: 2, Of: 5, Limit: "memory=1G"},
		"1st of 1, waiting for count=4":        {Place: 1, Of: 1, Limit: "count=4"},
		"3rd of 4, waiting for count=4":        {Place: 3, Of: 4, Limit: "count=4"},
		"11th of 21, waiting for count=4":      {Place: 11, Of: 21, Limit: "count=4"},
		"12th of 21, waiting for count=4":      {Place: 12, Of: 21, Limit: "count=4"},
		"21st of 30, waiting for memory=1M":    {Place: 21, Of: 30, Limit: "memory=1M"},
		"113th of 122, waiting for memory=999": {Place: 113, Of: 122, Limit: "memory=999"},
	} {
		if got := q.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
