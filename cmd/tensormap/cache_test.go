package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestCacheVerbs(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HF_HOME", t.TempDir())
	content := safetensorsOf(1 << 20)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.ServeContent(w, req, "", time.Unix(1e9, 0), bytes.NewReader(content))
	}))
	done(t, "inspect", s.URL+"/part.safetensors")
	done(t, "dump", s.URL+"/all.safetensors", "a")
	var list struct {
		Entries []struct {
			Names      []string
			Size, Have int64
			Complete   bool
		}
		Bytes int64
	}
	if err := json.Unmarshal([]byte(done(t, "cache", "ls", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Entries) != 2 || list.Bytes <= 1<<20 {
		t.Errorf("%+v", list)
	}
	for _, e := range list.Entries {
		if whole := strings.HasSuffix(e.Names[0], "all.safetensors"); e.Size != int64(len(content)) || e.Complete != whole || (e.Have == e.Size) != whole {
			t.Errorf("%+v", e)
		}
	}
	if out := done(t, "cache", "ls"); !strings.Contains(out, s.URL+"/part.safetensors") || !strings.Contains(out, "2 files, 1.") {
		t.Errorf("ls says\n%s", out)
	}
	if out := done(t, "cache", "verify"); out != "0 files right, 2 without a digest\n" {
		t.Errorf("verify says %s", out)
	}
	if r := tensormap("cache", "prune"); r.status != exitUsage || !strings.Contains(r.stderr, "--max-size") {
		t.Errorf("%+v", r)
	}
	if out := done(t, "cache", "prune", "--max-size", "0"); !strings.HasPrefix(out, "2 files removed, 1.") || !strings.HasSuffix(out, ", 0 B left\n") {
		t.Errorf("prune says %s", out)
	}
	if out := done(t, "cache", "ls"); out != "0 files, 0 B besides the files of the hub\n" {
		t.Errorf("ls says\n%s", out)
	}
}
