package bridge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/bridge"
)

// TestMethodIsPassedOn holds that the bridge takes any spelling and invents no method: a contract's rules may name one.
func TestMethodIsPassedOn(t *testing.T) {
	for _, tt := range []struct {
		body string
		want string
		bad  bool
	}{
		{"", "", false},
		{`,"method":""`, "", false},
		{`,"method":"Krum( F = 2 )"`, "Krum( F = 2 )", false},
		{`,"method":"normclip(factor=1.5,cap=0)"`, "normclip(factor=1.5,cap=0)", false},
		{`,"method":"` + strings.Repeat("m", 256) + `"`, strings.Repeat("m", 256), false},
		{`,"method":"` + strings.Repeat("m", 257) + `"`, "", true},
		{`,"method":"me\nan"`, "", true},
		{`,"method":5`, "", true},
	} {
		body := `{"min_peers":1,"tensors":[{"name":"w","dtype":"float32","shape":[2]}]` + tt.body + `}`
		if !json.Valid([]byte(body)) {
			t.Fatal(body)
		}
		req, _, err := bridge.DecodeOpen([]byte(body))
		refused(t, err)
		if (err != nil) != tt.bad || err == nil && req.Method != tt.want || err != nil && !strings.Contains(err.Error(), "method") {
			t.Errorf("%.60s: %q, %v", tt.body, req.Method, err)
		}
	}
}
