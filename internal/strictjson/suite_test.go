package strictjson_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"atrium/internal/strictjson"
)

// stricter are the cases that are valid JSON, or implementation-defined, but not I-JSON
// (RFC 7493): duplicate names, lone surrogates and a byte order mark. It includes cases
// that are nested too deep.
var stricter = map[string]bool{
	"y_object_duplicated_key": true, "y_object_duplicated_key_and_value": true,
	"i_object_key_lone_2nd_surrogate": true, "i_string_1st_surrogate_but_2nd_missing": true, "i_string_1st_valid_surrogate_2nd_invalid": true,
	"i_string_incomplete_surrogate_and_escape_valid": true, "i_string_incomplete_surrogate_pair": true,
	"i_string_incomplete_surrogates_escape_valid": true, "i_string_invalid_lonely_surrogate": true, "i_string_invalid_surrogate": true,
	"i_string_inverted_surrogates_U+1D11E": true, "i_string_lone_second_surrogate": true,
	"i_structure_500_nested_arrays": true, "i_structure_UTF-8_BOM_empty_object": true,
}

func TestEveryCaseOfTheJSONTestSuiteIsJudgedAsTheContractSays(t *testing.T) {
	file, err := os.Open("testdata/jsontestsuite/parsing.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	cases := 0
	for lines := bufio.NewScanner(file); lines.Scan(); cases++ {
		var c struct{ Name, Input string }
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		good := !strings.HasPrefix(c.Name, "n_") && !stricter[c.Name]
		o, err := strictjson.Parse([]byte(`{"v":` + c.Input + `}`))
		if good != (err == nil) {
			t.Errorf("%s: %.80q as a member: %v", c.Name, c.Input, err)
		}
		if err == nil && string(o.Value("v")) != strings.Trim(c.Input, " \t\r\n") {
			t.Errorf("%s: %q became %q", c.Name, c.Input, o.Value("v"))
		}
		if _, err := strictjson.Parse([]byte(c.Input)); (good && strings.HasPrefix(c.Input, "{")) != (err == nil) {
			t.Errorf("%s: %.80q as a whole: %v", c.Name, c.Input, err)
		}
	}
	if cases != 291 {
		t.Errorf("there are %d cases, want 291", cases)
	}
}
