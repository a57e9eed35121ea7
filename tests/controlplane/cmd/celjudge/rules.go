package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// rules asks what the API server says about an object whose definition has rules.
type rules struct {
	Schema apiextensionsv1.JSONSchemaProps `json:"schema"`
	Object interface{}                     `json:"object"`
	// Old is the former object, if there is one.
	Old interface{} `json:"old,omitempty"`
}

// judgeRules says why rules of the schema itself do not compile, or what they say of the object, and
// what all of them cost.
func judgeRules(asked rules) (answer, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&asked.Schema, &internal, nil); err != nil {
		return answer{}, err
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		return answer{}, err
	}
	declared := model.SchemaDeclType(structural, false)
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	compiled, err := cel.Compile(structural, declared, celconfig.PerCallLimit, base, cel.StoredExpressionsEnvLoader())
	if err != nil {
		return answer{Uncompiled: err.Error()}, nil
	}
	for _, each := range compiled {
		if each.Error != nil {
			return answer{Uncompiled: each.Error.Detail}, nil
		}
	}
	const budget = celconfig.RuntimeCELCostBudget
	validator := cel.NewValidator(structural, false, celconfig.PerCallLimit)
	wrong, left := validator.Validate(context.Background(), nil, structural, whole(asked.Object), whole(asked.Old), budget)
	given := answer{Errors: []string{}}
	for _, each := range wrong {
		given.Errors = append(given.Errors, fmt.Sprintf("%s|%s|%s", each.Type, each.Field, each.ErrorBody()))
	}
	sort.Strings(given.Errors)
	if left >= 0 {
		given.Estimate = uint64(budget - left)
	}
	return given, nil
}

// whole makes numbers without a fraction integers, as the API server reads them.
func whole(value interface{}) interface{} {
	switch value := value.(type) {
	case json.Number:
		if number, err := value.Int64(); err == nil {
			return number
		}
		number, _ := value.Float64()
		return number
	case []interface{}:
		for n := range value {
			value[n] = whole(value[n])
		}
	case map[string]interface{}:
		for key := range value {
			value[key] = whole(value[key])
		}
	}
	return value
}
