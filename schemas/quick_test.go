package schemas

import (
	"encoding/json"
	"testing"
)

// All that the quick way takes it reads like encoding/json.
func FuzzQuickActivity(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"ttl":"60s"}`, `{"ttl":"1h30m","by":"gateway@host","reason":"a page"}`, `{"released":true}`, `{"ttl":"60s","released":true,"intent":"reconnect"}`,
		`{"ttl":60}`, `{"by":"a\"b"}`, `{"by":"é"}`, `{"by":"x",}`, `{"by":"x""ttl":"1s"}`, `{"by":"x"} `, `{,}`, `{"released":truely}`, `{"ttl":"-5s"}`, `{"BY":"x"}`,
		`{"by":"x","by":"y"}`, `{"more":{"by":"x"}}`, `{"by":"x"}{"by":"y"}`, `{"action":"deploy","run_id":"r1"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var quick, slow Activity
		if !quickly(data, &quick) {
			return
		}
		err := json.Unmarshal(data, &slow)
		if err == nil {
			slow, err = slow.checked()
		}
		if err != nil || quick != slow {
			t.Errorf("%q is read as %+v, and slowly as %+v, %v", data, quick, slow, err)
		}
	})
}

// What is published all the time is read the quick way.
func TestQuickActivity(t *testing.T) {
	for _, s := range []string{`{}`, `{"ttl":"60s"}`, `{"ttl":"20s","reason":"its processes use the CPU"}`, `{"ttl":"60s","released":true}`, `{"intent":"reconnect"}`} {
		if !quickly([]byte(s), &Activity{}) {
			t.Errorf("%s is read slowly", s)
		}
	}
}
