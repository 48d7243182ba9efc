"""Adapter folders of PEFT (LoRA), in both directions."""
