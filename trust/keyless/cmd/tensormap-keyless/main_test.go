package main

import (
	"bytes"
	"strings"
	"testing"
)

const fixtures = "../../../../testdata/trust"

func TestRun(t *testing.T) {
	dir := fixtures + "/historical/v1.1.0-sigstore"
	all := []string{"--signature", dir + "/model.sig", "--identity", "stefanb@us.ibm.com", "--issuer", "https://sigstore.verify.ibm.com/oauth2",
		"--trusted-root", fixtures + "/sigstore/trusted_root.json"}
	with := func(args ...string) []string { return append(append([]string{}, all...), args...) }
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{with("--ignore-paths", dir+"/ignore-me", dir), 0, ""},
		{with(dir), 0, ""}, // which the bundle ignores itself
		{with("--identity", "somebody@us.ibm.com", dir), 1, "model.sig: signature not valid"},
		{with("--signature", fixtures+"/p256.sig", dir), 1, "p256.sig: signature not valid: the bundle is signed by key"},
		{with("--signature", dir+"/none", dir), 1, "none"},
		{with(fixtures + "/historical/v1.0.1-elliptic-key"), 1, "signme-1: checksum"},
		{with("--ignore-paths", "ignore-me", dir), 1, "ignore-me: invalid: it does not lie below"},
		{with(), 2, "usage"},
		{all[2:], 2, "usage"},
		{[]string{"--what"}, 2, "usage"},
		{[]string{"--help"}, 0, "usage"},
	} {
		var out bytes.Buffer
		if status := run(t.Context(), c.args, &out); status != c.status || !strings.Contains(out.String(), c.says) || c.says == "" && out.Len() > 0 {
			t.Errorf("%q: status %d, %s", c.args, status, out.String())
		}
	}
}
