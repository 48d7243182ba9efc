"""Chat templates in the forms that are met with checkpoints, written here, and conversations for them."""

CHATML = """{%- for message in messages %}
    {%- if loop.first and message['role'] != 'system' %}
        {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

LLAMA = """{% if messages[0]['role'] == 'system' %}
    {% set system = '<<SYS>>\\n' ~ messages[0]['content'] | trim ~ '\\n<</SYS>>\\n\\n' %}
    {% set turns = messages[1:] %}
{% else %}
    {% set system = '' %}
    {% set turns = messages %}
{% endif %}
{% for message in turns %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('roles must alternate: user, assistant, user, ...') }}
    {% endif %}
    {% if message['role'] == 'user' %}
{{ bos_token }}[INST] {{ (system if loop.first else '') + message['content'].strip() }} [/INST]
    {%- else %}
 {{ message['content'].strip() }} {{ eos_token }}
    {%- endif %}
{% endfor %}"""

GEMMA = """{{ bos_token }}{% set ns = namespace(first='') %}
{%- if messages[0]['role'] == 'system' -%}
    {%- set ns.first = messages[0]['content'] + '\\n\\n' -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + (ns.first if loop.first else '') }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- else -%}
        {%- for part in message['content'] -%}
            {%- if part['type'] == 'text' -%}{{ part['text'] | trim }}{%- else -%}{% continue %}{%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"""

TOOLS = """{{- bos_token }}
{%- macro described(tool) %}
{{ tool | tojson(indent=2) }}
{%- endmacro %}
{%- if tools %}
    {{- 'Tools:' }}
    {%- for tool in tools %}{{ described(tool) }}{% endfor %}
{%- endif %}
{%- for message in messages | selectattr('role', 'ne', 'system') %}
{%- if message.role == 'assistant' %}
{{ 'A: ' }}{% generation %}{{ message.content }}{{ eos_token }}{% endgeneration %}
{%- else %}
{{ 'Q: ' ~ message.content | replace('\\n', ' ') | upper }}
{%- endif %}
{%- endfor %}
{{- '\\nA:' if add_generation_prompt else '' }}"""

TEMPLATES = {"chatml": CHATML, "llama": LLAMA, "gemma": GEMMA, "tools": TOOLS}

ASKED = {"role": "user", "content": "  Où est l’été ?\n<b>«&»</b> 👍🏽"}
ANSWERED = {"role": "assistant", "content": "Ici."}
SYSTEM = {"role": "system", "content": "Tu es poli. {{ 7 * 7 }} "}
TALKS = {
    "one": [ASKED],
    "three": [ASKED, ANSWERED, {"role": "user", "content": "Merci"}],
    "system": [SYSTEM, ASKED, ANSWERED, ASKED],
}
