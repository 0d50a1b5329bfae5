package rpc

import (
	"net/http"
	"testing"
)

func TestChargeOfACall(t *testing.T) {
	a := Access{Message: 1000, Answer: 7}
	for _, tt := range []struct {
		name   string
		length int64
		header http.Header
		want   int64
	}{
		{"a length that is told", 10, http.Header{"Content-Type": {"application/proto"}}, 3*10 + 7},
		{"one that is not", -1, http.Header{"Content-Type": {"application/grpc"}}, 3*1000 + 7},
		{"too long to be read", 1 << 40, http.Header{"Content-Type": {"application/proto"}}, 3*1000 + 7},
		{"compressed", 10, http.Header{"Content-Type": {"application/proto"}, "Content-Encoding": {"gzip"}}, 3*1000 + 7},
		{"compressed by gRPC", 10, http.Header{"Content-Type": {"application/grpc"}, "Grpc-Encoding": {"gzip"}}, 3*1000 + 7},
	} {
		if got := a.charge(&http.Request{ContentLength: tt.length, Header: tt.header}); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
