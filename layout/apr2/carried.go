package apr2

import (
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// CarriedPrefix begins the keys of another format's metadata that hold what was APR2 metadata, as JSON, before a
// conversion.
const CarriedPrefix = "apr2."

// Carried reads the objects that md, the metadata of a file of format f, carries under these keys. It leaves out those
// that are missing or no text. One longer than limit bytes is layout.ErrLimit.
func Carried(md layout.Metadata, f layout.Format, limit int, lim layout.Limits, keys ...string) (objects layout.Metadata, err error) {
	for _, key := range keys {
		v, _ := md.Get(CarriedPrefix + key)
		text, ok := v.(string)
		if !ok {
			continue
		}
		if len(text) > limit {
			return nil, layout.Errorf(f, 0, "metadata", layout.ErrLimit, "%s of %d bytes, more than %d", CarriedPrefix+key, len(text), limit)
		}
		object, err := jsontext.Parse([]byte(text), f, 0, CarriedPrefix+key, lim)
		if err != nil {
			return nil, err
		}
		objects.Set(key, object)
	}
	return objects, nil
}
