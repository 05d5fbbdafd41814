open import "inner"
